"""Messages of sensors, with ROS's fields: https://docs.ros.org/en/api/sensor_msgs/html/msg/Image.html."""

from dataclasses import dataclass


@dataclass
class Image:
    """A picture."""

    header: object = None
    height: int = 0
    width: int = 0
    encoding: str = ""
    is_bigendian: int = 0
    step: int = 0
    data: bytes = b""
