"""The part of ROS 2 in Python that the yoeo example uses; its test needs it, because ROS is on no package index."""

parameters: dict[str, object] = {}
