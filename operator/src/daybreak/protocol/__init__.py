"""Messages from gateways to the operator: reports of gates and tallies of routes, with their JSON form."""
