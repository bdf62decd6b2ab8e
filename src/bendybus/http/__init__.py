"""The broker over HTTP: health, and the drills with messaging stores."""
