"""Fit DF21 and print CPU seconds and accuracy as JSON: ``PYTHON _df21.py DATA.npz SEED``.

DF21 is imported as ``deepforest``, the name of our library. So it needs an environment of its own,
without this checkout on its path: ``python3.11 -m venv FOLDER`` and
``FOLDER/bin/pip install deep-forest-py310 "numpy<2" "scikit-learn<1.6"``. ``SYLVA_DF21`` names its
interpreter, ``FOLDER/bin/python``.
"""

import json
import sys
import time

import numpy as np

from deepforest import CascadeForestClassifier


def main(file: str, seed: int) -> None:
    """Fit with the parameters that DF21 has by default, on one thread."""
    data = np.load(file)
    model = CascadeForestClassifier(n_jobs=1, random_state=seed, verbose=0)
    began = time.process_time()
    model.fit(data["x"], data["y"])
    fitted = time.process_time()
    share = (model.predict(data["x_test"]).ravel() == data["y_test"]).mean()
    result = {"cpu": fitted - began, "accuracy": float(share), "layers": len(model)}
    print(json.dumps({**result, "predict_cpu": time.process_time() - fitted}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
