module grantd.invalid/grantd

go 1.19
