"""Boards behind an RPC tracker."""
