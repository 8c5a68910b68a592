"""The detector in a container of components: ros2 launch tvmbuild_detector detector.launch.py packages:=[net.tar]."""  # noqa: INP001

from typing import List  # noqa: UP035 - launch_ros compares types with these

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import ComposableNodeContainer
from launch_ros.descriptions import ComposableNode
from launch_ros.parameter_descriptions import ParameterValue


def generate_launch_description() -> LaunchDescription:
    """Return the container with the node. `packages` is a list in YAML, for example [a.tar, b.tar]."""
    words = {"packages": "['']", "score": "-1.0", "overlap": "-1.0", "classes": "['']", "image": "image"}
    types = {"packages": List[str], "score": float, "overlap": float, "classes": List[str]}  # noqa: UP006
    parameters = {name: ParameterValue(LaunchConfiguration(name), value_type=kind) for name, kind in types.items()}
    node = ComposableNode(
        package="tvmbuild_detector",
        plugin="tvmbuild_detector::DetectorNode",
        name="detector",
        parameters=[parameters],
        remappings=[("image", LaunchConfiguration("image"))],
        extra_arguments=[{"use_intra_process_comms": True}],
    )
    container = ComposableNodeContainer(
        name="detector_container",
        namespace="",
        package="rclcpp_components",
        executable="component_container",
        composable_node_descriptions=[node],
    )
    return LaunchDescription(
        [*(DeclareLaunchArgument(name, default_value=text) for name, text in words.items()), container]
    )
