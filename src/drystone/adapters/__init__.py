"""Members from other libraries, and stacked posteriors for other libraries.

Each module imports its library only when it is used.
"""

from drystone.adapters.averaged import averaged
from drystone.adapters.bayesflow import from_bayesflow
from drystone.adapters.files import from_files
from drystone.adapters.functions import from_functions, from_likelihood, from_ratio
from drystone.adapters.lampe import from_lampe
from drystone.adapters.member import Density, Member, Sampler
from drystone.adapters.member_file import to_file
from drystone.adapters.restrict import restrict
from drystone.adapters.sbi import from_sbi
from drystone.adapters.zuko import from_zuko

__all__ = [
    "Density",
    "Member",
    "Sampler",
    "averaged",
    "from_bayesflow",
    "from_files",
    "from_functions",
    "from_lampe",
    "from_likelihood",
    "from_ratio",
    "from_sbi",
    "from_zuko",
    "restrict",
    "to_file",
]
