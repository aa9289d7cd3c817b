"""The decorator of the package's dataclasses: it generates each method when it is first called.

`dataclasses.dataclass` compiles up to eight methods of a class when its module is imported: 0.2 ms for a class, 0.6 ms
for a frozen one. A start imports 200 classes and calls few of these methods, so this was a third of its processor time.
The classes and their methods are otherwise those of `dataclasses.dataclass`, and its functions accept them.

mypyc applies the decorator to a class that it has compiled, and ignores the class that is returned. Members that the
decorator sets remain, except those that the source has.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

C = TypeVar("C")


def lazy_dataclass(
    *, slots: bool, frozen: bool = False, eq: bool = True, kw_only: bool = False, **others: bool
) -> Callable[[type[C]], type[C]]:
    """Return a decorator that makes a dataclass with slots.

    Subclasses of dataclasses, and classes with other parameters of `dataclasses.dataclass`, get their methods at once.
    """

    def decorate(cls: type[C]) -> type[C]:
        if others or dataclasses.is_dataclass(cls):
            return dataclasses.dataclass(slots=slots, frozen=frozen, eq=eq, kw_only=kw_only, **others)(cls)
        has_slots = slots and not is_compiled(cls)
        own = {name for name, member in vars(cls).items() if member is not None}
        cls.__doc__ = cls.__doc__ or cls.__name__  # dataclasses would make one of the signature
        made: Any = dataclasses.dataclass(slots=has_slots, kw_only=kw_only, init=False, repr=False, eq=False)(
            cls
        )
        options = {"slots": slots, "frozen": frozen}
        methods = {
            "__init__": {**options, "repr": False, "eq": False},
            "__repr__": {**options, "init": False, "eq": False},
        }
        if eq:
            methods["__eq__"] = methods["__hash__"] = {**options, "init": False, "repr": False}
        if eq and not frozen:
            del methods["__hash__"]
            made.__hash__ = made.__hash__ if "__hash__" in own else None
        for name, generating in methods.items():
            if name not in own:
                setattr(made, name, _generated_later(made, name, generating))
        if frozen:
            made.__dataclass_params__.frozen = True
            made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
            if has_slots:
                made.__getstate__, made.__setstate__ = _state, _set_state
        return made  # type: ignore[no-any-return]

    return decorate


def is_compiled(cls: type) -> bool:
    """Return whether mypyc has compiled the class: then it keeps no type hints."""
    return "__mypyc_attrs__" in vars(cls)


def _generated_later(cls: type, name: str, options: dict[str, Any]) -> Callable[..., Any]:
    """Return a method that replaces itself by the one that dataclasses generates with these options.

    It is generated for another class with the same fields, because no class derives from a compiled one.
    """

    def method(*args: Any, **keywords: Any) -> Any:
        fields = [(each.name, each.type, each) for each in dataclasses.fields(cls)]
        own: dict[str, Any] = {"__doc__": cls.__name__}  # dataclasses would make one of the signature
        if hasattr(cls, "__post_init__"):
            own["__post_init__"] = None
        generated = vars(dataclasses.make_dataclass(cls.__name__, fields, namespace=own, **options))[name]
        generated.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, generated)
        return generated(*args, **keywords)

    return method


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    """Return the values of the fields, for pickle and copy."""
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


if TYPE_CHECKING:  # mypyc makes native classes of those with this decorator
    from dataclasses import dataclass as dataclass
else:
    dataclass = lazy_dataclass
