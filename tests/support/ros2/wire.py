"""A camera and a listener on the wire of ROS 2, by PyPI's cyclonedds: python wire.py FOLDER ENCODING,HEIGHT,WIDTH,STEP.

It publishes the files `*.raw` of the folder as sensor_msgs/Image and prints the vision_msgs/Detection2DArray of each.
The types are those that ROS 2's DDS layers make of the messages, with their names of types and fields.
"""

# mypy: ignore-errors
# The types of Cyclone DDS mean sizes on the wire, which mypy does not know.

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import array, float64, int32, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration


@dataclass
@final
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    """A time."""

    sec_: int32
    nanosec_: uint32


@dataclass
@final
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    """A header."""

    stamp_: Time
    frame_id_: str


@dataclass
@final
class Image(IdlStruct, typename="sensor_msgs.msg.dds_.Image_"):
    """A picture."""

    header_: Header
    height_: uint32
    width_: uint32
    encoding_: str
    is_bigendian_: uint8
    step_: uint32
    data_: sequence[uint8]


@dataclass
@final
class Point(IdlStruct, typename="geometry_msgs.msg.dds_.Point_"):
    """A point."""

    x_: float64
    y_: float64
    z_: float64


@dataclass
@final
class Quaternion(IdlStruct, typename="geometry_msgs.msg.dds_.Quaternion_"):
    """A rotation."""

    x_: float64
    y_: float64
    z_: float64
    w_: float64


@dataclass
@final
class Pose(IdlStruct, typename="geometry_msgs.msg.dds_.Pose_"):
    """A pose."""

    position_: Point
    orientation_: Quaternion


@dataclass
@final
class PoseWithCovariance(IdlStruct, typename="geometry_msgs.msg.dds_.PoseWithCovariance_"):
    """A pose with its covariance."""

    pose_: Pose
    covariance_: array[float64, 36]


@dataclass
@final
class Point2D(IdlStruct, typename="vision_msgs.msg.dds_.Point2D_"):
    """A point of a picture."""

    x_: float64
    y_: float64


@dataclass
@final
class Pose2D(IdlStruct, typename="vision_msgs.msg.dds_.Pose2D_"):
    """A pose in a picture."""

    position_: Point2D
    theta_: float64


@dataclass
@final
class BoundingBox2D(IdlStruct, typename="vision_msgs.msg.dds_.BoundingBox2D_"):
    """A box."""

    center_: Pose2D
    size_x_: float64
    size_y_: float64


@dataclass
@final
class ObjectHypothesis(IdlStruct, typename="vision_msgs.msg.dds_.ObjectHypothesis_"):
    """A class."""

    class_id_: str
    score_: float64


@dataclass
@final
class ObjectHypothesisWithPose(IdlStruct, typename="vision_msgs.msg.dds_.ObjectHypothesisWithPose_"):
    """A class and a pose."""

    hypothesis_: ObjectHypothesis
    pose_: PoseWithCovariance


@dataclass
@final
class Detection2D(IdlStruct, typename="vision_msgs.msg.dds_.Detection2D_"):
    """A detection."""

    header_: Header
    results_: sequence[ObjectHypothesisWithPose]
    bbox_: BoundingBox2D
    id_: str


@dataclass
@final
class Detection2DArray(IdlStruct, typename="vision_msgs.msg.dds_.Detection2DArray_"):
    """The detections in a picture."""

    header_: Header
    detections_: sequence[Detection2D]


IMAGE, DETECTIONS = "image", "detections"
WAIT = 60
"""The time limit for an answer, in seconds."""


def sensor_data() -> Qos:
    """Return the quality of service of rclpy's qos_profile_sensor_data."""
    return Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(5), Policy.Durability.Volatile)


def describe(answer: Detection2DArray) -> str:
    """Return the answer as a line of JSON."""
    detections = [
        [
            [[each.hypothesis_.class_id_, each.hypothesis_.score_] for each in detection.results_],
            [detection.bbox_.center_.position_.x_, detection.bbox_.center_.position_.y_],
            [detection.bbox_.size_x_, detection.bbox_.size_y_],
        ]
        for detection in answer.detections_
    ]
    stamp = answer.header_.stamp_
    return json.dumps([stamp.sec_, stamp.nanosec_, answer.header_.frame_id_, detections])


def main(folder: Path, form: str) -> None:
    """Publish each picture of the folder, again and again until its answer comes."""
    encoding, height, width, step = form.split(",")
    participant = DomainParticipant()
    writer = DataWriter(participant, Topic(participant, f"rt/{IMAGE}", Image), qos=sensor_data())
    reliable = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10))
    reader = DataReader(participant, Topic(participant, f"rt/{DETECTIONS}", Detection2DArray), qos=reliable)
    for number, path in enumerate(sorted(folder.glob("*.raw"))):
        header = Header(Time(number, 7), "camera")
        picture = Image(header, int(height), int(width), encoding, 0, int(step), path.read_bytes())
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            writer.write(picture)
            time.sleep(0.1)
            answers = [each for each in reader.take(10) if each.header_.stamp_.sec_ == number]
            if answers:
                print(describe(answers[0]), flush=True)
                break
        else:
            sys.exit(f"no answer came for {path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
