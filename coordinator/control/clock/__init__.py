"""The time of groups: held, moved ahead, ended for one member."""
