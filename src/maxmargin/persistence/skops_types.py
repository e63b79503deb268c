"""The classes of the parts of learners, which users of skops have to trust."""

from __future__ import annotations

from maxmargin import _registry

# The classes of each package, by module and name.
_PARTS = {
    "algorithms": "bisectionperceptron.Round noca.MixtureModel",
    "core": "joint_loop.Rivals rows.Tail",
    "estimator": "learner.Sparse",
    "experts": """
        expert_loop.Experts expert_loop.RowScratch mixture.ExpertMixture votes.Votes
        random_features.FeatureScratch random_features.NoFeatures random_features.RandomFeatures
        scaled_columns.ScaledColumns standardized_columns.StandardizedColumns
        standardized_columns.StandardizedRow
    """,
    "kernels": """
        functions.GaussianKernel functions.LinearKernel functions.PolynomialKernel
        functions.PrecomputedKernel points.Points products.Products cuda.CudaProducts
    """,
    "models": """
        budget_model.BudgetModel budget_model.Store budget_policies.Projecting
        budget_policies.Replacing expert_model.ExpertModel
        joint_model.JointModel kernel_model.JointKernelModel kernel_model.KernelModel
        kernel_model.PairKernelModel
        kernel_model.Supports linear_model.LinearModel linear_model.PairModel
        linear_model.DiagonalModel spec.BudgetSpec spec.DiagonalSpec spec.ExpansionSpec
        spec.KernelSpec spec.LinearSpec spec.MixtureSpec spec.Regularization spec.VoteSpec
        vote_model.VoteModel
    """,
    "solvers": """
        regularization_path.RegularizationPath solutions.Hyperplanes solutions.KernelExpansion
    """,
    "spaces": """
        euclid.Euclid joint_space.JointSpace joint_space.JointWitness joint_space.KBest
        joint_space.OneBest linear_space.LinearSpace gaussian_mixture.Mixture
        pair_space.PairSpace pnorm_plane.PlaneSpace pnorm.PNorm power.Power
        power.PowerBuffer problem_scalars.Scalars budget_space.Slots
        certificate_vectors.Witness diagonal_space.DiagonalSpace diagonal_space.Confidence
        diagonal_space.AdaptiveRates diagonal_space.Leader
    """,
    "streams": "recipe.Recipe",
    "training": "platt.Sigmoids prediction_sets.SetTracker state.State types.Features",
}

TRUSTED_TYPES = [
    *(f"{module}.{name}" for name, module in _registry.LEARNERS.items()),
    *(f"maxmargin.{package}.{part}" for package, text in _PARTS.items() for part in text.split()),
]
