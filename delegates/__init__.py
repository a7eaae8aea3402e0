"""How backends meet the arena: installed as ``etarena.delegates``."""
