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


class YoeoNode(Node):
    """Publishes `detections`, rows of x, y, w, h, objectness, classes; and `segmentation`, a class for each pixel.

    Both are in pixels of the network's square picture: the camera's with black above and below.
    """

    def __init__(self) -> None:
        super().__init__("yoeo")
        package = self.declare_parameter("package", "yoeo.tar").value
        self.session = tvmbuild.load(package)
        self.detections = self.create_publisher(Float32MultiArray, "detections", 1)
        self.segmentation = self.create_publisher(Image, "segmentation", 1)
        self.create_subscription(Image, "image", self.process, qos_profile_sensor_data)

    def process(self, message: Image) -> None:
        """Run the network on one picture."""
        picture = self.session.preprocess(make_square(read_rgb(message)))
        outputs = self.session.run({"InputLayer": picture})
        boxes = outputs["Detections"][0]
        answer = Float32MultiArray(data=boxes.ravel().tolist())
        sizes = zip(("box", "value"), boxes.shape, (boxes.size, boxes.shape[1]), strict=True)
        answer.layout.dim = [MultiArrayDimension(label=label, size=size, stride=step) for label, size, step in sizes]
        self.detections.publish(answer)
        classes = outputs["Segmentations"][0].astype(np.uint8)
        height, width = classes.shape
        mask = Image(header=message.header, height=height, width=width, encoding="mono8", step=width)
        mask.data = classes.tobytes()
        self.segmentation.publish(mask)


def read_rgb(message: Image) -> np.ndarray:
    """Return a picture with 8 bits in each channel as an array [height, width, 3], red first."""
    if message.encoding not in {"rgb8", "bgr8"}:
        raise ValueError(f"pictures are {message.encoding}; set the camera to rgb8 or bgr8")
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    picture = rows[:, : 3 * message.width].reshape(message.height, message.width, 3)
    return picture if message.encoding == "rgb8" else picture[..., ::-1]


def make_square(picture: np.ndarray) -> np.ndarray:
    """Return the picture in the middle of a black square."""
    height, width, _ = picture.shape
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    square = np.zeros((side, side, 3), np.uint8)
    square[top : top + height, left : left + width] = picture
    return square


if __name__ == "__main__":
    rclpy.init()
    rclpy.spin(YoeoNode())
