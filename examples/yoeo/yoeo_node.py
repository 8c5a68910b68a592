"""A ROS 2 node: pictures in, YOEO's detections and segmentation out.

`python yoeo_node.py --ros-args -p package:=yoeo-nuc-vulkan.tar -r image:=/camera/image_raw`
"""  # noqa: INP001 - a script

from __future__ import annotations

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
from std_msgs.msg import Float32MultiArray, MultiArrayDimension

import tvmbuild

VALUES = 6
"""The values of a published box."""


class YoeoNode(Node):
    """Publishes `detections`, rows of x, y, width, height, score, class; and `segmentation`, a class for each pixel.

    Both are in the camera's pixels. A box begins at its left upper corner.
    """

    def __init__(self) -> None:
        super().__init__("yoeo")
        package = self.declare_parameter("package", "yoeo.tar").value
        self.session = tvmbuild.load(package)
        self.detections = self.create_publisher(Float32MultiArray, "detections", 1)
        self.segmentation = self.create_publisher(Image, "segmentation", 1)
        self.create_subscription(Image, "image", self.process, qos_profile_sensor_data)

    def process(self, message: Image) -> None:
        """Run the network on one picture, whose size and encoding models.yaml states."""
        rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
        frame = np.ascontiguousarray(rows[:, : 3 * message.width]).reshape(message.height, message.width, 3)
        found = self.session.run_frame(frame, message.encoding)
        boxes = [(box.x, box.y, box.width, box.height, box.score, box.index) for box in found.boxes]
        answer = Float32MultiArray(data=[float(value) for box in boxes for value in box])
        sizes = zip(("box", "value"), (len(boxes), VALUES), (len(boxes) * VALUES, VALUES), strict=True)
        answer.layout.dim = [MultiArrayDimension(label=label, size=size, stride=step) for label, size, step in sizes]
        self.detections.publish(answer)
        classes = found.segmentation.classes
        height, width = classes.shape
        mask = Image(header=message.header, height=height, width=width, encoding="mono8", step=width)
        mask.data = classes.tobytes()
        self.segmentation.publish(mask)


if __name__ == "__main__":
    rclpy.init()
    rclpy.spin(YoeoNode())
