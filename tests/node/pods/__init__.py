"""What runs in the containers of these tests besides the product."""
