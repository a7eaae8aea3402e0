"""The Vulkan delegate: subgraphs run as compute shaders."""
