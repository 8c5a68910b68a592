"""The device `rpc`: boards behind an RPC tracker."""
