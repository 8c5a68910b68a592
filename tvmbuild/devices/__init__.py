"""The devices that run packages and time the candidates of a search."""
