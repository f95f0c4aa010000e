"""Credentials for other libraries. Each module imports its library, and only when the module is imported.

`requests`, `httpx`, `google`, `azure`, `botocore`, `mail` (imaplib, smtplib) and `keyring`.
"""
