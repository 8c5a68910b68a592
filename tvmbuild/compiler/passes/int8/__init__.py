"""The lowering of quantised (QDQ) networks to integer arithmetic."""
