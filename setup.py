"""Package metadata of autotune: everything setuptools needs to know stands here."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "([^"]+)"', (HERE / "autotune" / "version.py").read_text("utf-8"), re.M
).group(1)

# On Linux the `xgboost` wheel pulls in 350 MB of NCCL, which a single-host CPU model never calls;
# `xgboost-cpu` is the same project's distribution of the same module without it.
XGBOOST = [
    'xgboost-cpu>=2.1.1; platform_system == "Linux" and platform_machine == "x86_64"',
    'xgboost>=1.7; platform_system != "Linux" or platform_machine != "x86_64"',
]
CHECK = ["ruff>=0.8", "mypy>=1.13", "build>=1.2", "pre-commit>=3.5"]
# NVRTC needs no GPU: what compiles with it is tested wherever its wheels exist.
NVRTC = [
    f'{wheel}>=13.0.48; platform_system == "Linux" and platform_machine == "x86_64"'
    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime")
]
DOCS = ["sphinx>=8.1", "myst-parser>=4", "furo>=2024.8.6", "sphinx-copybutton>=0.5.2"]
PLOT, PANDAS = ["matplotlib>=3.8"], ["pandas>=2"]
# Parses models, and defines composite operators by others.
ONNX = ["onnx>=1.17"]
SQL = ["sqlalchemy>=2.0.25"]
POSTGRESQL = [*SQL, "psycopg[binary]>=3.1.18"]
FLEET = ["distributed>=2024.8.0", "msgpack>=1.0.2"]
# The page is tested in Chromium, which `.ci/run` installs, with a checker of accessibility.
BROWSER = ["selenium>=4.20", "axe-core-python>=0.1"]
TEST = [
    "pytest>=9",
    "pytest-cov>=5",
    "hypothesis>=6.100",
    "jsonschema>=4.17",
    "pytest-xdist>=3.5",
    "nbclient>=0.10",
    "nbformat>=5.10",
    "ipykernel>=6.29",
    *PLOT,
    *PANDAS,
    *POSTGRESQL,
    *FLEET,
    *ONNX,
    # What is exported is built with CMake, and made a wheel.
    "cmake>=3.25",
    "setuptools>=70.1",
    *BROWSER,
    *NVRTC,
]
# Where the repository is public, such as "https://github.com/NAME/autotune"; empty until it is.
REPOSITORY = ""


def long_description(text, repository):
    """Return a README whose links and pictures also work on a package index."""
    if not repository:
        return text
    target = r"(?!https?:|#)([^)\s]+)\)"
    pictures = re.sub(rf"!\[([^\]]*)\]\({target}", rf"![\1]({repository}/raw/main/\2)", text)
    return re.sub(rf"\]\({target}", rf"]({repository}/blob/main/\1)", pictures)


setup(
    name="autotune",
    version=VERSION,
    description="A stand-alone kernel autotuner in the style of AutoTVM, for CUDA and C",
    long_description=long_description((HERE / "README.md").read_text("utf-8"), REPOSITORY),
    long_description_content_type="text/markdown",
    url=REPOSITORY or None,
    license="Apache-2.0",
    python_requires=">=3.10",
    keywords=["autotuning", "autotvm", "tvm", "cuda", "compiler", "gpu"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        *[f"Programming Language :: Python :: 3.{minor}" for minor in (10, 11, 12, 13)],
        "Topic :: Software Development :: Compilers",
        "Typing :: Typed",
    ],
    packages=[
        *find_packages(include=["autotune", "autotune.*"]),
        "autotune.templates",
        *[f"autotune.templates.{folder}" for folder in find_packages("templates")],
    ],
    package_dir={"autotune": "autotune", "autotune.templates": "templates"},
    package_data={
        "autotune": [
            "py.typed",
            "**/*.h",
            "emulator/include/cuda/**/*",  # without an ending, as libcu++ has them
            "**/*.c",
            "**/*.html",
            "**/*.css",
            "**/*.js",
            "**/*.LICENSE",
            "ship/files/*",
            "tvm/served/*.py",
            "auto_scheduler/search/models/*.npz",
        ],
        "autotune.templates": ["tuned/*", "kernels/**/*.cu", "kernels/**/*.c", "kernels/**/*.h"],
    },
    install_requires=[
        "numpy>=1.24",
        "scipy>=1.10",
        "tornado>=6.3",
        "jinja2>=3.1",
        "click>=8.1",
        "ml_dtypes>=0.4",
        "rich>=13",
        "tomli-w>=1",
        'tomli>=2; python_version < "3.11"',
        *XGBOOST,
    ],
    extras_require={
        "cuda": ["pycuda>=2024.1", "nvidia-ml-py>=12"],
        "nvrtc": ["cuda-core[cu13]>=0.3"],
        "plot": PLOT,
        "pandas": PANDAS,
        "sql": SQL,
        "postgresql": POSTGRESQL,
        "fleet": FLEET,
        "torch": ["torch>=2.4"],
        "onnx": ONNX,
        "notebook": ["ipywidgets>=8"],
        "docs": DOCS,
        "test": TEST,
        "bench": [*PLOT, "optuna>=4"],
        "dev": [*TEST, *CHECK, *DOCS],
    },
    entry_points={
        "console_scripts": ["autotune = autotune.cli.main:main"],
        # torch.compile(model, backend="autotune"), without an import of autotune.
        "torch_dynamo_backends": ["autotune = autotune.torch:backend"],
    },
)
