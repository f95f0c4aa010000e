module service

go 1.19

require grantd.invalid/grantd v0.0.0

replace grantd.invalid/grantd => ../../../clients/go
