"""doit_adapter"""
