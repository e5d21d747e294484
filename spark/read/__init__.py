"""Reading each database at one snapshot with Spark, and keeping frames between the stages of an audit."""
