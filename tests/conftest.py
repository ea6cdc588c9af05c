"""What holds for all tests."""

from hypothesis import settings

# A property holds or does not, however busy the machine is.
settings.register_profile("headwater", deadline=None)
settings.load_profile("headwater")
