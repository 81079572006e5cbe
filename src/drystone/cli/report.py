"""`drystone report`: one HTML file."""
