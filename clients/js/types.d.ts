// Made by clients/generate; do not edit.

export type Access = "open" | "use" | "id_token" | "login" | "manage" | "observe"

export interface AccountEndSessionResult {
  ended: boolean
}

export interface AccountListResult {
  accounts: AccountView[]
  next?: string
}

export interface AccountLogoutResult {
  steps: Step[]
  end_session_url?: string
}

export interface AccountRefreshResult {
  refreshed: boolean
  generation: number
  confirmed?: boolean
}

export interface AccountSessionsResult {
  sessions: SessionView[]
}

export type AccountState = "ok" | "refreshing" | "degraded" | "login_required" | "action_required"

export interface AccountUserinfoResult {
  claims: Record<string, unknown>
}

export interface AccountView {
  account: string
  provider: string
  state: AccountState
  identity?: Identity
  scopes: string[]
  generation: number
  expires_at?: number
  next_refresh_at?: number
  refresh_expires_at?: number
  refresh_expiry_learned?: boolean
  refresh_expires_soon?: boolean
  refresh_issued_at?: number
  last_refresh_at?: number
  logged_in_at: number
  last_error?: LastError
  grant?: string
  token_binding?: string
  tokens?: NarrowedToken[]
  renewable?: boolean
  reports?: Report[]
  lost_scopes?: string[]
  scopes_unverified?: boolean
  required_scopes?: string[]
}

export interface ApprovalView {
  id?: string
  account: string
  method: string
  kind?: TokenKind
  scopes?: string[]
  resource?: string
  caller: ReleaseCaller
  allowed: boolean
  until: number
  request?: string
  calls_left?: number
}

export type AuditAction = "release" | "id_token" | "use" | "login" | "logout" | "policy" | "admin" | "observe"

export interface AuditListResult {
  records: Line[]
  next?: number
}

export interface BrokerLockResult {
  state: string
  warnings: string[]
}

export interface BrokerMetricsResult {
  text: string
  content_type: string
}

export interface BrokerReloadResult {
  providers: number
  warnings: string[]
  listeners?: ListenerView[]
}

export interface BrokerStatusResult {
  version: string
  instance: string
  pid: number
  state: string
  started_at: number
  summary: string
  accounts: Record<string, number>
  providers: number
  pending_logins: number
  callback: string[]
  store: StoreView
  configuration: ConfigurationView
  provider_conditions?: ConditionView[]
  refresh_tokens_ending?: number
  caller?: CallerView
  held_back?: HeldBackView
  files?: FileView[]
  listeners?: ListenerView[]
  set_aside?: SetAsideView[]
  clock?: ClockView
  hold?: HoldView
  sharing?: SharingView
}

export interface BrokerUnlockResult {
  state: string
}

export interface CallerView {
  uid: number
  access: Record<string, string[]>
}

export interface Check {
  name: CheckName
  account?: string
  result: CheckResult
  message: string
  hint?: string
}

export type CheckName = "configuration" | "condition" | "connection" | "discovery" | "issuer" | "endpoints" | "keys" | "clock" | "grant_types" | "client_authentication" | "pkce" | "scopes" | "redirect_uri" | "narrowing" | "granted_scopes" | "refresh_token"

export type CheckResult = "ok" | "warning" | "failed" | "skipped"

export interface ClientMetadataResult {
  url?: string
  client_name: string
  redirect_uris: string[]
  grant_types: string[]
  response_types: string[]
  token_endpoint_auth_method: string
}

export interface ClockView {
  behind_seconds: number
  message: string
  hint: string
}

export interface ConditionView {
  provider: string
  condition: string
  since?: number
  retry_at?: number
  skew_seconds?: number
  last_error?: string
  odd_answers?: string[]
  lost_grants?: number
}

export interface ConfigurationView {
  path?: string
  loaded_at: number
}

export interface Confirmation {
  rule: string
  timeout: number
  exempt_scopes?: string[]
}

export interface DPoPProofResult {
  proof: string
  thumbprint: string
}

export interface Destination {
  kind: string
  app?: string
  url?: string
  redirect_uri?: string
  user_code?: string
  verification_uri?: string
  verification_uri_complete?: string
  expires_at?: number
  interval?: number
}

export type ErrorReason = "unknown_account" | "unknown_provider" | "unknown_login" | "not_permitted" | "login_required" | "login_denied" | "login_cancelled" | "login_expired" | "login_in_progress" | "invalid_callback" | "temporarily_unavailable" | "timed_out" | "provider_misconfigured" | "provider_error" | "scope_not_granted" | "unsupported_by_provider" | "registration_rejected" | "rate_limited" | "overloaded" | "store_failure" | "shutting_down" | "invalid_configuration" | "invalid_backup" | "key_not_replaceable" | "locked"

export interface Event {
  type: EventType
  at: number
  account?: string
  provider?: string
  login_id?: string
  generation?: number
  reason?: ErrorReason
  message?: string
  hint?: string
  refresh_expires_at?: number
  release?: ReleaseView
  detail?: string
  rotation?: string
}

export type EventType = "token.refreshed" | "token.failed" | "account.scopes_lost" | "account.scopes_required" | "login.required" | "login.started" | "login.action_required" | "login.completed" | "login.failed" | "account.removed" | "refresh_token.expiring" | "release.waiting" | "release.ended" | "provider.unreachable" | "provider.recovered" | "store.failed" | "store.recovered" | "clock.stepped" | "file.written" | "configuration.reloaded"

export interface EventsSubscribeResult {
  subscribed: string[]
}

export interface FileView {
  path: string
  account: string
  state: string
  reason?: string
  message?: string
  hint?: string
  since?: number
  restored?: number
  restored_at?: number
}

export interface HeldBackView {
  counts: Record<string, number>
  latest?: string
}

export interface HoldView {
  since?: number
  uid?: number
  hint: string
}

export interface Identity {
  subject: string
  issuer?: string
  email?: string
  name?: string
  username?: string
}

export type Kind = "session_limit" | "registration"

export interface LastError {
  reason: ErrorReason
  message: string
  hint: string
  at: number
  oauth?: OAuthDetail
  detail?: string
  rotation?: string
}

export interface LeftOut {
  account: string
  why: string
}

export interface Line {
  id: number
  first: number
  last: number
  count: number
  action: AuditAction
  method: string
  account?: string
  provider?: string
  uid?: number
  pid?: number
  unit?: string
  user_unit?: string
  exe?: string
  parent?: string
  scopes?: string[]
  generation?: number
  rule?: string
  result: string
  detail?: string
}

export interface ListenerView {
  setting: string
  address: string
  state: string
  message?: string
  hint?: string
}

export interface LoginActionView {
  kind: Kind
  message: string
  sessions_limit?: number
  sessions?: SessionView[]
  identifier?: string
}

export interface LoginCancelResult {
  cancelled: boolean
}

export interface LoginContinueResult {
  login_id: string
  state: LoginState
  account?: AccountView
  action?: LoginActionView
  authorization_code?: string
  destination_used?: Opened
  fell_back?: boolean
  warnings?: string[]
  waiting_for?: string
}

export interface LoginHandleCallbackResult {
  handled: boolean
  login_id?: string
  next_url?: string
}

export interface LoginListResult {
  logins: LoginView[]
}

export interface LoginProbeResult {
  result: CheckResult
  message: string
  hint?: string
  cause?: string
  pushed: boolean
}

export interface LoginStartResult {
  login_id: string
  account: string
  expires_at: number
  destinations: Destination[]
  warnings: string[]
  client_id?: string
  joined?: boolean
}

export type LoginState = "pending" | "action_required" | "completed"

export interface LoginView {
  login_id: string
  provider: string
  account: string
  state: LoginState
  started_at: number
  expires_at: number
}

export interface LoginWaitResult {
  login_id: string
  state: LoginState
  account?: AccountView
  action?: LoginActionView
  authorization_code?: string
  destination_used?: Opened
  fell_back?: boolean
  warnings?: string[]
  waiting_for?: string
}

export interface MachineView {
  node: string
  name: string
  version: string
  state: string
  seen_seconds: number
  clock_offset_seconds?: number
  leases: number
}

export interface NarrowedToken {
  scopes: string[]
  resource?: string
  expires_at?: number
}

export interface OAuthDetail {
  error: string
  error_description?: string
  error_uri?: string
}

export interface Opened {
  kind: string
  app?: string
}

export interface PolicyExplainResult {
  allowed: boolean
  rule?: string
  scopes?: string[]
  confirm?: Confirmation
  why: string
}

export interface PolicyRulesResult {
  instance: string
  rules: Rule[]
}

export interface ProviderCheckResult {
  provider: string
  ok: boolean
  checked_at: number
  checks: Check[]
}

export interface ProviderGetResult {
  provider: ProviderView
  redirect_uri: string
  endpoints: Record<string, string>
  supports: Record<string, boolean>
  metadata_fetched_at?: number
  forward_path?: string
  section?: Record<string, unknown>
  section_files?: string[]
  section_base?: string
}

export interface ProviderListResult {
  providers: ProviderView[]
}

export interface ProviderRegisterResult {
  provider: string
  client_id: string
  issuer: string
  warnings: string[]
}

export interface ProviderUnregisterResult {
  steps: Step[]
}

export interface ProviderView {
  provider: string
  kind: string
  profile?: string
  display_name: string
  issuer?: string
  client_id: string
  scopes: string[]
  accounts: number
  state: string
  last_error?: string
  refreshes_per_second?: number
}

export interface ReleaseApproveResult {
  approved: boolean
}

export interface ReleaseCaller {
  uid: number
  pid?: number
  unit?: string
  user_unit?: string
  exe?: string
  parent?: string
}

export interface ReleaseDenyResult {
  denied: boolean
}

export interface ReleaseListResult {
  waiting: ReleaseView[]
  standing: ApprovalView[]
}

export interface ReleaseRevokeResult {
  revoked: boolean
}

export interface ReleaseView {
  id: string
  account: string
  method: string
  kind?: TokenKind
  scopes?: string[]
  resource?: string
  request?: string
  body_sha256?: string
  caller: ReleaseCaller
  rule: string
  since: number
  until: number
  outcome?: string
}

export interface Report {
  uid: number
  unit?: string
  user_unit?: string
  generation: number
  at: number
}

export interface RequestSendResult {
  status: number
  headers: Record<string, string>
  body?: string
  body_base64?: string
}

export interface ResourceAddResult {
  provider: string
  created: boolean
  resource: string
  issuer: string
  client: ResourceClient
  client_id: string
  scopes: string[]
  forward_path: string
  warnings: string[]
}

export type ResourceClient = "provider" | "metadata_document" | "registration" | "given"

export interface ResourceDiscoverResult {
  resource: string
  metadata_url?: string
  issuer: string
  issuers: string[]
  scopes: string[]
  client?: ResourceClient
  provider?: string
}

export interface Rule {
  rule: string
  uid?: number
  gid?: number
  unit?: string
  user_unit?: string
  exe?: string
  accounts: string[]
  access: Access[]
  methods?: string[]
  scopes?: string[]
  resources?: string[]
  requests?: string[]
  mcp?: string[]
  confirm_timeout?: number
  source?: string
}

export interface SessionView {
  session_id: string
  user_agent?: string
  client?: string
  ip?: string
  online?: boolean
  current?: boolean
  last?: string
}

export interface SetAsideView {
  row: string
  account?: string
  message: string
  hint: string
}

export interface SharingView {
  machines: MachineView[]
  leases: number
  schema: number
  warnings: string[]
}

export interface Step {
  step: string
  result: string
  message?: string
}

export interface StoreBackupPartResult {
  data: string
}

export interface StoreBackupResult {
  backup_id: string
  size: number
  accounts: number
  left_out?: string[]
}

export interface StoreRepairResult {
  row: string
  outcome: string
}

export interface StoreRestoreApplyResult {
  restored: string[]
  replaced: string[]
  kept: string[]
  left_out: LeftOut[]
  warnings: string[]
}

export interface StoreRestoreLookResult {
  host: string
  made_at: number
  version: string
  accounts: number
  known: number
  older?: string[]
}

export interface StoreRestorePartResult {
  received: number
}

export interface StoreRestoreResult {
  restore_id: string
}

export interface StoreRotateKeyResult {
  key_file: string
  accounts: number
  seconds: number
  warnings: string[]
}

export interface StoreView {
  path: string
  state: string
  message?: string
  hint?: string
  since?: number
  held_back?: number
}

export interface Subject {
  uid: number
  gid?: number
  groups?: number[]
  unit?: string
  user_unit?: string
  exe?: string
}

export interface TokenExchangeResult {
  access_token: string
  issued_token_type: string
  token_type: string
  expires_at?: number
  expires_in?: number
  scope?: string[]
}

export interface TokenGetResult {
  access_token?: string
  token_type?: string
  id_token?: string
  kind?: string
  session_id?: string
  cookie?: string
  expires_at?: number
  expires_in?: number
  scope: string[]
  account: string
  provider: string
  issuer?: string
  generation: number
  dpop_thumbprint?: string
  extra?: Record<string, unknown>
}

export interface TokenIntrospectResult {
  active: boolean
  claims: Record<string, unknown>
}

export type TokenKind = "access_token" | "id_token"

export interface TokenReportRejectedResult {
  refreshed: boolean
  generation: number
  confirmed?: boolean
}

export interface UIOpenResult {
  url: string
  port: number
  expires_at: number
}
