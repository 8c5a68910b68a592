"""LSTM, GRU and RNN on CPUs as one kernel."""
