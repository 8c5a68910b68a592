"""Messages of numbers, with ROS's fields: https://docs.ros.org/en/api/std_msgs/html/msg/Float32MultiArray.html."""

from dataclasses import dataclass, field


@dataclass
class MultiArrayDimension:
    """One dimension."""

    label: str = ""
    size: int = 0
    stride: int = 0


@dataclass
class MultiArrayLayout:
    """All dimensions."""

    dim: list[MultiArrayDimension] = field(default_factory=list)
    data_offset: int = 0


@dataclass
class Float32MultiArray:
    """Numbers."""

    layout: MultiArrayLayout = field(default_factory=MultiArrayLayout)
    data: list[float] = field(default_factory=list)
