"""As much of ROS 2 in Python as the yoeo example uses: a stand-in for its test, for ROS is on no package index."""

parameters: dict[str, object] = {}
