// Parameters and results are JSON values, which each user of this room names.
@_exported public import JSON
