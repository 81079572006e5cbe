"""Drystone: one sound posterior out of many imperfect ones.

The names are listed in ``__init__.pyi`` and imported on first use, so that ``import drystone`` is immediate
and pulls in neither torch nor any plotting, inference or cluster library.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
