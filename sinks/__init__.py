"""What leaves the house: each sink takes snapshots from its outlet, whoever made them."""
