"""The hooks of callbacks, as scikit-learn calls them from version 1.9 on, for earlier versions."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any

from maxmargin._extras import Self

HOOKS = "setup", "on_fit_task_begin", "on_fit_task_end", "teardown"

# Attributes of an estimator with callbacks, which are no part of what it learnt.
MADE_BY_CALLBACKS = {
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
}


class Context:
    """A task of a fit, as callbacks see it; see `sklearn.callback.CallbackContext`."""

    def __init__(self, callbacks: list[Any], name: str, task_name: str, parent: Any = None) -> None:
        self._callbacks, self._children = callbacks, 0
        self.estimator_name, self.task_name, self.parent = name, task_name, parent
        self.root_uuid = uuid.uuid4() if parent is None else parent.root_uuid
        self.task_id = 0

    def subcontext(self, task_name: str) -> Context:
        made = Context(self._callbacks, self.estimator_name, task_name, self)
        made.task_id, self._children = self._children, self._children + 1
        return made

    def call_on_fit_task_begin(self, *, estimator: Any, **given: Any) -> bool:
        return self._call("on_fit_task_begin", estimator, given)

    def call_on_fit_task_end(self, *, estimator: Any, **given: Any) -> bool:
        return self._call("on_fit_task_end", estimator, given)

    def _call(self, hook: str, estimator: Any, given: dict[str, Any]) -> bool:
        """Call a hook of all callbacks, with what they have parameters for."""
        attributes, stop = given.pop("reconstruction_attributes", None), False
        for callback in self._callbacks:
            asked = inspect.signature(getattr(callback, hook)).parameters
            if "fitted_estimator" in asked and attributes is not None:
                given["fitted_estimator"] = fitted = copy(estimator)
                vars(fitted).update(attributes())
                attributes = None
            told = {name: value for name, value in given.items() if name in asked}
            stop |= bool(getattr(callback, hook)(estimator, self, **told))
        return stop


class CallbackSupportMixin:
    """Lets a learner have callbacks."""

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Have these callbacks, with the hooks of `sklearn.callback.FitCallback`.

        Parameters
        ----------
        *callbacks : callbacks

        Returns
        -------
        self
        """
        for callback in callbacks:
            if not all(hasattr(callback, hook) for hook in HOOKS):
                raise TypeError("callbacks must be instances following the FitCallback protocol.")
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            self.__dict__.pop("_skl_callbacks", None)
        return self

    def _init_callback_context(self, max_subtasks: int | None = None) -> Context:
        context = Context(self._skl_callbacks, type(self).__name__, "fit")
        self._callback_fit_ctx = context
        for callback in self._skl_callbacks:
            callback.setup(estimator=self, context=context)
        return context


def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let callbacks tidy up after a call, however it ends."""

    @wraps(method)
    def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(estimator, *args, **kwargs)
        finally:
            context = estimator.__dict__.pop("_callback_fit_ctx", None)
            for callback in estimator._skl_callbacks if context is not None else ():
                callback.teardown(estimator=estimator, context=context)

    return managed
