"""Members that are likelihoods: neural likelihoods, ratios, surrogates, tractable likelihoods, made posteriors."""

from drystone.likelihood.member import LikelihoodMember
from drystone.likelihood.normalize import NormalizedMember, normalize
from drystone.likelihood.report import NormalizationReport

__all__ = ["LikelihoodMember", "NormalizationReport", "NormalizedMember", "normalize"]
