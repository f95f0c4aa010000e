"""The results of the methods as types (docs/rpc.md). Made by clients/generate; do not edit.

For annotations: `if TYPE_CHECKING: from grantd.types import AccountView`."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict

Access = Literal[
    "open",
    "use",
    "id_token",
    "login",
    "manage",
    "observe",
]

AccountState = Literal[
    "ok",
    "refreshing",
    "degraded",
    "login_required",
    "action_required",
]

AuditAction = Literal[
    "release",
    "id_token",
    "use",
    "login",
    "logout",
    "policy",
    "admin",
    "observe",
]

CheckName = Literal[
    "configuration",
    "condition",
    "connection",
    "discovery",
    "issuer",
    "endpoints",
    "keys",
    "clock",
    "grant_types",
    "client_authentication",
    "pkce",
    "scopes",
    "redirect_uri",
    "narrowing",
    "granted_scopes",
    "refresh_token",
]

CheckResult = Literal[
    "ok",
    "warning",
    "failed",
    "skipped",
]

ErrorReason = Literal[
    "unknown_account",
    "unknown_provider",
    "unknown_login",
    "not_permitted",
    "login_required",
    "login_denied",
    "login_cancelled",
    "login_expired",
    "login_in_progress",
    "invalid_callback",
    "temporarily_unavailable",
    "timed_out",
    "provider_misconfigured",
    "provider_error",
    "scope_not_granted",
    "unsupported_by_provider",
    "registration_rejected",
    "rate_limited",
    "overloaded",
    "store_failure",
    "shutting_down",
    "invalid_configuration",
    "invalid_backup",
    "key_not_replaceable",
    "locked",
]

EventType = Literal[
    "token.refreshed",
    "token.failed",
    "account.scopes_lost",
    "account.scopes_required",
    "login.required",
    "login.started",
    "login.action_required",
    "login.completed",
    "login.failed",
    "account.removed",
    "refresh_token.expiring",
    "release.waiting",
    "release.ended",
    "provider.unreachable",
    "provider.recovered",
    "store.failed",
    "store.recovered",
    "clock.stepped",
    "file.written",
    "configuration.reloaded",
]

Kind = Literal[
    "session_limit",
    "registration",
]

LoginState = Literal[
    "pending",
    "action_required",
    "completed",
]

ResourceClient = Literal[
    "provider",
    "metadata_document",
    "registration",
    "given",
]

TokenKind = Literal[
    "access_token",
    "id_token",
]


class AccountEndSessionResult(TypedDict):
    ended: bool


_AccountListResult = TypedDict(
    "_AccountListResult", {
        "accounts": "List[AccountView]",
    })


class AccountListResult(_AccountListResult, total=False):
    next: str


_AccountLogoutResult = TypedDict(
    "_AccountLogoutResult", {
        "steps": "List[Step]",
    })


class AccountLogoutResult(_AccountLogoutResult, total=False):
    end_session_url: str


_AccountRefreshResult = TypedDict(
    "_AccountRefreshResult", {
        "refreshed": "bool",
        "generation": "int",
    })


class AccountRefreshResult(_AccountRefreshResult, total=False):
    confirmed: bool


class AccountSessionsResult(TypedDict):
    sessions: List[SessionView]


class AccountUserinfoResult(TypedDict):
    claims: Dict[str, Any]


_AccountView = TypedDict(
    "_AccountView", {
        "account": "str",
        "provider": "str",
        "state": "AccountState",
        "scopes": "List[str]",
        "generation": "int",
        "logged_in_at": "int",
    })


class AccountView(_AccountView, total=False):
    identity: Identity
    expires_at: int
    next_refresh_at: int
    refresh_expires_at: int
    refresh_expiry_learned: bool
    refresh_expires_soon: bool
    refresh_issued_at: int
    last_refresh_at: int
    last_error: LastError
    grant: str
    token_binding: str
    tokens: List[NarrowedToken]
    renewable: bool
    reports: List[Report]
    lost_scopes: List[str]
    scopes_unverified: bool
    required_scopes: List[str]


_ApprovalView = TypedDict(
    "_ApprovalView", {
        "account": "str",
        "method": "str",
        "caller": "ReleaseCaller",
        "allowed": "bool",
        "until": "int",
    })


class ApprovalView(_ApprovalView, total=False):
    id: str
    kind: TokenKind
    scopes: List[str]
    resource: str
    request: str
    calls_left: int


_AuditListResult = TypedDict(
    "_AuditListResult", {
        "records": "List[Line]",
    })


class AuditListResult(_AuditListResult, total=False):
    next: int


class BrokerLockResult(TypedDict):
    state: str
    warnings: List[str]


class BrokerMetricsResult(TypedDict):
    text: str
    content_type: str


_BrokerReloadResult = TypedDict(
    "_BrokerReloadResult", {
        "providers": "int",
        "warnings": "List[str]",
    })


class BrokerReloadResult(_BrokerReloadResult, total=False):
    listeners: List[ListenerView]


_BrokerStatusResult = TypedDict(
    "_BrokerStatusResult", {
        "version": "str",
        "instance": "str",
        "pid": "int",
        "state": "str",
        "started_at": "int",
        "summary": "str",
        "accounts": "Dict[str, int]",
        "providers": "int",
        "pending_logins": "int",
        "callback": "List[str]",
        "store": "StoreView",
        "configuration": "ConfigurationView",
    })


class BrokerStatusResult(_BrokerStatusResult, total=False):
    provider_conditions: List[ConditionView]
    refresh_tokens_ending: int
    caller: CallerView
    held_back: HeldBackView
    files: List[FileView]
    listeners: List[ListenerView]
    set_aside: List[SetAsideView]
    clock: ClockView
    hold: HoldView
    sharing: SharingView


class BrokerUnlockResult(TypedDict):
    state: str


class CallerView(TypedDict):
    uid: int
    access: Dict[str, List[str]]


_Check = TypedDict(
    "_Check", {
        "name": "CheckName",
        "result": "CheckResult",
        "message": "str",
    })


class Check(_Check, total=False):
    account: str
    hint: str


_ClientMetadataResult = TypedDict(
    "_ClientMetadataResult", {
        "client_name": "str",
        "redirect_uris": "List[str]",
        "grant_types": "List[str]",
        "response_types": "List[str]",
        "token_endpoint_auth_method": "str",
    })


class ClientMetadataResult(_ClientMetadataResult, total=False):
    url: str


class ClockView(TypedDict):
    behind_seconds: int
    message: str
    hint: str


_ConditionView = TypedDict(
    "_ConditionView", {
        "provider": "str",
        "condition": "str",
    })


class ConditionView(_ConditionView, total=False):
    since: int
    retry_at: int
    skew_seconds: float
    last_error: str
    odd_answers: List[str]
    lost_grants: int


_ConfigurationView = TypedDict(
    "_ConfigurationView", {
        "loaded_at": "int",
    })


class ConfigurationView(_ConfigurationView, total=False):
    path: str


_Confirmation = TypedDict(
    "_Confirmation", {
        "rule": "str",
        "timeout": "float",
    })


class Confirmation(_Confirmation, total=False):
    exempt_scopes: List[str]


class DPoPProofResult(TypedDict):
    proof: str
    thumbprint: str


_Destination = TypedDict(
    "_Destination", {
        "kind": "str",
    })


class Destination(_Destination, total=False):
    app: str
    url: str
    redirect_uri: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_at: int
    interval: int


_Event = TypedDict(
    "_Event", {
        "type": "EventType",
        "at": "int",
    })


class Event(_Event, total=False):
    account: str
    provider: str
    login_id: str
    generation: int
    reason: ErrorReason
    message: str
    hint: str
    refresh_expires_at: int
    release: ReleaseView
    detail: str
    rotation: str


class EventsSubscribeResult(TypedDict):
    subscribed: List[str]


_FileView = TypedDict(
    "_FileView", {
        "path": "str",
        "account": "str",
        "state": "str",
    })


class FileView(_FileView, total=False):
    reason: str
    message: str
    hint: str
    since: int
    restored: int
    restored_at: int


_HeldBackView = TypedDict(
    "_HeldBackView", {
        "counts": "Dict[str, int]",
    })


class HeldBackView(_HeldBackView, total=False):
    latest: str


_HoldView = TypedDict(
    "_HoldView", {
        "hint": "str",
    })


class HoldView(_HoldView, total=False):
    since: int
    uid: int


_Identity = TypedDict(
    "_Identity", {
        "subject": "str",
    })


class Identity(_Identity, total=False):
    issuer: str
    email: str
    name: str
    username: str


_LastError = TypedDict(
    "_LastError", {
        "reason": "ErrorReason",
        "message": "str",
        "hint": "str",
        "at": "int",
    })


class LastError(_LastError, total=False):
    oauth: OAuthDetail
    detail: str
    rotation: str


class LeftOut(TypedDict):
    account: str
    why: str


_Line = TypedDict(
    "_Line", {
        "id": "int",
        "first": "int",
        "last": "int",
        "count": "int",
        "action": "AuditAction",
        "method": "str",
        "result": "str",
    })


class Line(_Line, total=False):
    account: str
    provider: str
    uid: int
    pid: int
    unit: str
    user_unit: str
    exe: str
    parent: str
    scopes: List[str]
    generation: int
    rule: str
    detail: str


_ListenerView = TypedDict(
    "_ListenerView", {
        "setting": "str",
        "address": "str",
        "state": "str",
    })


class ListenerView(_ListenerView, total=False):
    message: str
    hint: str


_LoginActionView = TypedDict(
    "_LoginActionView", {
        "kind": "Kind",
        "message": "str",
    })


class LoginActionView(_LoginActionView, total=False):
    sessions_limit: int
    sessions: List[SessionView]
    identifier: str


class LoginCancelResult(TypedDict):
    cancelled: bool


_LoginContinueResult = TypedDict(
    "_LoginContinueResult", {
        "login_id": "str",
        "state": "LoginState",
    })


class LoginContinueResult(_LoginContinueResult, total=False):
    account: AccountView
    action: LoginActionView
    authorization_code: str
    destination_used: Opened
    fell_back: bool
    warnings: List[str]
    waiting_for: str


_LoginHandleCallbackResult = TypedDict(
    "_LoginHandleCallbackResult", {
        "handled": "bool",
    })


class LoginHandleCallbackResult(_LoginHandleCallbackResult, total=False):
    login_id: str
    next_url: str


class LoginListResult(TypedDict):
    logins: List[LoginView]


_LoginProbeResult = TypedDict(
    "_LoginProbeResult", {
        "result": "CheckResult",
        "message": "str",
        "pushed": "bool",
    })


class LoginProbeResult(_LoginProbeResult, total=False):
    hint: str
    cause: str


_LoginStartResult = TypedDict(
    "_LoginStartResult", {
        "login_id": "str",
        "account": "str",
        "expires_at": "int",
        "destinations": "List[Destination]",
        "warnings": "List[str]",
    })


class LoginStartResult(_LoginStartResult, total=False):
    client_id: str
    joined: bool


class LoginView(TypedDict):
    login_id: str
    provider: str
    account: str
    state: LoginState
    started_at: int
    expires_at: int


_LoginWaitResult = TypedDict(
    "_LoginWaitResult", {
        "login_id": "str",
        "state": "LoginState",
    })


class LoginWaitResult(_LoginWaitResult, total=False):
    account: AccountView
    action: LoginActionView
    authorization_code: str
    destination_used: Opened
    fell_back: bool
    warnings: List[str]
    waiting_for: str


_MachineView = TypedDict(
    "_MachineView", {
        "node": "str",
        "name": "str",
        "version": "str",
        "state": "str",
        "seen_seconds": "int",
        "leases": "int",
    })


class MachineView(_MachineView, total=False):
    clock_offset_seconds: float


_NarrowedToken = TypedDict(
    "_NarrowedToken", {
        "scopes": "List[str]",
    })


class NarrowedToken(_NarrowedToken, total=False):
    resource: str
    expires_at: int


_OAuthDetail = TypedDict(
    "_OAuthDetail", {
        "error": "str",
    })


class OAuthDetail(_OAuthDetail, total=False):
    error_description: str
    error_uri: str


_Opened = TypedDict(
    "_Opened", {
        "kind": "str",
    })


class Opened(_Opened, total=False):
    app: str


_PolicyExplainResult = TypedDict(
    "_PolicyExplainResult", {
        "allowed": "bool",
        "why": "str",
    })


class PolicyExplainResult(_PolicyExplainResult, total=False):
    rule: str
    scopes: List[str]
    confirm: Confirmation


class PolicyRulesResult(TypedDict):
    instance: str
    rules: List[Rule]


class ProviderCheckResult(TypedDict):
    provider: str
    ok: bool
    checked_at: int
    checks: List[Check]


_ProviderGetResult = TypedDict(
    "_ProviderGetResult", {
        "provider": "ProviderView",
        "redirect_uri": "str",
        "endpoints": "Dict[str, str]",
        "supports": "Dict[str, bool]",
    })


class ProviderGetResult(_ProviderGetResult, total=False):
    metadata_fetched_at: int
    forward_path: str
    section: Dict[str, Any]
    section_files: List[str]
    section_base: str


class ProviderListResult(TypedDict):
    providers: List[ProviderView]


class ProviderRegisterResult(TypedDict):
    provider: str
    client_id: str
    issuer: str
    warnings: List[str]


class ProviderUnregisterResult(TypedDict):
    steps: List[Step]


_ProviderView = TypedDict(
    "_ProviderView", {
        "provider": "str",
        "kind": "str",
        "display_name": "str",
        "client_id": "str",
        "scopes": "List[str]",
        "accounts": "int",
        "state": "str",
    })


class ProviderView(_ProviderView, total=False):
    profile: str
    issuer: str
    last_error: str
    refreshes_per_second: float


class ReleaseApproveResult(TypedDict):
    approved: bool


_ReleaseCaller = TypedDict(
    "_ReleaseCaller", {
        "uid": "int",
    })


class ReleaseCaller(_ReleaseCaller, total=False):
    pid: int
    unit: str
    user_unit: str
    exe: str
    parent: str


class ReleaseDenyResult(TypedDict):
    denied: bool


class ReleaseListResult(TypedDict):
    waiting: List[ReleaseView]
    standing: List[ApprovalView]


class ReleaseRevokeResult(TypedDict):
    revoked: bool


_ReleaseView = TypedDict(
    "_ReleaseView", {
        "id": "str",
        "account": "str",
        "method": "str",
        "caller": "ReleaseCaller",
        "rule": "str",
        "since": "int",
        "until": "int",
    })


class ReleaseView(_ReleaseView, total=False):
    kind: TokenKind
    scopes: List[str]
    resource: str
    request: str
    body_sha256: str
    outcome: str


_Report = TypedDict(
    "_Report", {
        "uid": "int",
        "generation": "int",
        "at": "int",
    })


class Report(_Report, total=False):
    unit: str
    user_unit: str


_RequestSendResult = TypedDict(
    "_RequestSendResult", {
        "status": "int",
        "headers": "Dict[str, str]",
    })


class RequestSendResult(_RequestSendResult, total=False):
    body: str
    body_base64: str


class ResourceAddResult(TypedDict):
    provider: str
    created: bool
    resource: str
    issuer: str
    client: ResourceClient
    client_id: str
    scopes: List[str]
    forward_path: str
    warnings: List[str]


_ResourceDiscoverResult = TypedDict(
    "_ResourceDiscoverResult", {
        "resource": "str",
        "issuer": "str",
        "issuers": "List[str]",
        "scopes": "List[str]",
    })


class ResourceDiscoverResult(_ResourceDiscoverResult, total=False):
    metadata_url: str
    client: ResourceClient
    provider: str


_Rule = TypedDict(
    "_Rule", {
        "rule": "str",
        "accounts": "List[str]",
        "access": "List[Access]",
    })


class Rule(_Rule, total=False):
    uid: int
    gid: int
    unit: str
    user_unit: str
    exe: str
    methods: List[str]
    scopes: List[str]
    resources: List[str]
    requests: List[str]
    mcp: List[str]
    confirm_timeout: float
    source: str


_SessionView = TypedDict(
    "_SessionView", {
        "session_id": "str",
    })


class SessionView(_SessionView, total=False):
    user_agent: str
    client: str
    ip: str
    online: bool
    current: bool
    last: str


_SetAsideView = TypedDict(
    "_SetAsideView", {
        "row": "str",
        "message": "str",
        "hint": "str",
    })


class SetAsideView(_SetAsideView, total=False):
    account: str


class SharingView(TypedDict):
    machines: List[MachineView]
    leases: int
    schema: int
    warnings: List[str]


_Step = TypedDict(
    "_Step", {
        "step": "str",
        "result": "str",
    })


class Step(_Step, total=False):
    message: str


class StoreBackupPartResult(TypedDict):
    data: str


_StoreBackupResult = TypedDict(
    "_StoreBackupResult", {
        "backup_id": "str",
        "size": "int",
        "accounts": "int",
    })


class StoreBackupResult(_StoreBackupResult, total=False):
    left_out: List[str]


class StoreRepairResult(TypedDict):
    row: str
    outcome: str


class StoreRestoreApplyResult(TypedDict):
    restored: List[str]
    replaced: List[str]
    kept: List[str]
    left_out: List[LeftOut]
    warnings: List[str]


_StoreRestoreLookResult = TypedDict(
    "_StoreRestoreLookResult", {
        "host": "str",
        "made_at": "int",
        "version": "str",
        "accounts": "int",
        "known": "int",
    })


class StoreRestoreLookResult(_StoreRestoreLookResult, total=False):
    older: List[str]


class StoreRestorePartResult(TypedDict):
    received: int


class StoreRestoreResult(TypedDict):
    restore_id: str


class StoreRotateKeyResult(TypedDict):
    key_file: str
    accounts: int
    seconds: float
    warnings: List[str]


_StoreView = TypedDict(
    "_StoreView", {
        "path": "str",
        "state": "str",
    })


class StoreView(_StoreView, total=False):
    message: str
    hint: str
    since: int
    held_back: int


_Subject = TypedDict(
    "_Subject", {
        "uid": "int",
    })


class Subject(_Subject, total=False):
    gid: int
    groups: List[int]
    unit: str
    user_unit: str
    exe: str


_TokenExchangeResult = TypedDict(
    "_TokenExchangeResult", {
        "access_token": "str",
        "issued_token_type": "str",
        "token_type": "str",
    })


class TokenExchangeResult(_TokenExchangeResult, total=False):
    expires_at: int
    expires_in: int
    scope: List[str]


_TokenGetResult = TypedDict(
    "_TokenGetResult", {
        "scope": "List[str]",
        "account": "str",
        "provider": "str",
        "generation": "int",
    })


class TokenGetResult(_TokenGetResult, total=False):
    access_token: str
    token_type: str
    id_token: str
    kind: str
    session_id: str
    cookie: str
    expires_at: int
    expires_in: int
    issuer: str
    dpop_thumbprint: str
    extra: Dict[str, Any]


class TokenIntrospectResult(TypedDict):
    active: bool
    claims: Dict[str, Any]


_TokenReportRejectedResult = TypedDict(
    "_TokenReportRejectedResult", {
        "refreshed": "bool",
        "generation": "int",
    })


class TokenReportRejectedResult(_TokenReportRejectedResult, total=False):
    confirmed: bool


class UIOpenResult(TypedDict):
    url: str
    port: int
    expires_at: int
