"""Pictures of memory plans: the memory map (time x address) as PNG, SVG and one self-contained HTML page."""
