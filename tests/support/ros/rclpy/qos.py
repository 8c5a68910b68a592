"""Profiles of subscriptions."""

qos_profile_sensor_data = object()
