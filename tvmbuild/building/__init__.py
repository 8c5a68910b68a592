"""A model built by code, as a value: above compiler and replay, below the stages; knows neither steps nor projects."""
