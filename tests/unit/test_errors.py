"""SQLSTATEs become exceptions."""

import psycopg
import pytest
from psycopg import errors as pg

from mqpg.values import errors
from mqpg.values.translation import by_sqlstate, translate

CODES = {
    "MQ001": errors.InvalidArgument,
    "MQ002": errors.InvalidName,
    "MQ003": errors.UnknownTopic,
    "MQ004": errors.UnknownProducerGroup,
    "MQ005": errors.UnknownSubscription,
    "MQ006": errors.UnknownHandle,
    "MQ007": errors.MalformedReceipt,
    "MQ008": errors.SpentReceipt,
    "MQ009": errors.StaleReceipt,
    "MQ010": errors.PayloadTooLarge,
    "MQ011": errors.AlreadyDefined,
    "MQ012": errors.TopicInUse,
    "MQ013": errors.OffsetOutOfRange,
    "MQ014": errors.MissingBody,
    "MQ015": errors.WrongTransaction,
    "MQ016": errors.RestoredCluster,
    "MQ017": errors.Fenced,
    "MQ018": errors.WrongState,
    "MQ020": errors.InvalidFilter,
    "MQ025": errors.NotGranted,
    "55P03": errors.LockTimeout,
    "40001": errors.SerializationFailure,
    "40P01": errors.SerializationFailure,
    "08006": errors.ConnectionFailed,
    "57P01": errors.ConnectionFailed,
    "57P03": errors.ConnectionFailed,
    "3D000": errors.ConnectionFailed,
    "28P01": errors.ConnectionFailed,
    "22P02": errors.InvalidArgument,
    "42501": errors.NotGranted,
}


@pytest.mark.parametrize(("sqlstate", "wanted"), CODES.items())
def test_each_sqlstate_has_its_class(sqlstate: str, wanted: type[errors.Error]) -> None:
    assert by_sqlstate(sqlstate) is wanted


def test_no_sqlstate_is_a_lost_connection() -> None:
    known = translate(psycopg.OperationalError("server closed\n the connection"))
    assert isinstance(known, errors.ConnectionFailed)


def test_what_the_driver_refuses_is_an_invalid_argument() -> None:
    assert isinstance(translate(psycopg.DataError("NUL bytes")), errors.InvalidArgument)


def test_the_message_is_one_line() -> None:
    known = translate(pg.UndefinedTable('relation "x"\ndoes   not exist'))
    assert str(known) == 'relation "x" does not exist'
    assert known.sqlstate == "42P01"


def test_a_new_line_of_the_driver_is_a_new_sentence() -> None:
    refused = psycopg.OperationalError("connection failed: Connection refused\n\tIs the server running?\n- host: a\n")
    assert str(translate(refused)) == "connection failed: Connection refused. Is the server running? - host: a"
    assert str(translate(RuntimeError("no route\nMore: here"))) == "no route. More: here"


def test_everything_is_an_error_of_mqpg() -> None:
    for name in errors.__all__:
        cls = getattr(errors, name)
        if isinstance(cls, type):
            assert issubclass(cls, errors.Error)
            assert cls.__doc__
