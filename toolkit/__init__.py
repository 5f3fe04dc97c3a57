"""
offsetbook: walk Kafka consumer groups from a question to a verified answer.

The public names are in `__init__.pyi`. Each is loaded at its first use, so that importing this
package loads no Spark, Jupyter or Kafka client.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
