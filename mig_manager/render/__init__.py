"""Drawings and tables: cards, plans and profiles as text, SVG and Markdown. Pure: values in, text out."""
