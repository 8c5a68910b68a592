"""The kernel that computes a whole LSTM, GRU or RNN on a CPU."""
