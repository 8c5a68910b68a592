"""From a model's file to the graph that is built, and to the numbers that it must give."""
