"""Who answers which API: bootstrap requests here, group requests by the groups, the rest by the data plane."""
