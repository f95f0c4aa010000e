extension DemoServer.Settings {
  /// The settings of the five systems, by their names in the control API.
  static let systems: [Entry] = vmsEntries + zephrEntries + otherEntries

  private static let vmsEntries: [Entry] = [
    .text("vms_redirect", \.vms.redirect), .flag("vms_enabled", \.vms.isEnabled),
    .flag("vms_captcha", \.vms.hasCaptcha), .text("vms_version", \.vms.version),
    .text("vms_oldest_client", \.vms.oldestClient), .flag("vms_needs_headers", \.vms.needsHeaders),
    .number("vms_session_limit", \.vms.sessionLimit, in: 0...Limits.vmsSessions),
    .flag("vms_limit_key", \.vms.hasKey), .flag("vms_key_changes", \.vms.changesKey),
    .choice("vms_limit_shape", \.vms.limitShape), .number("vms_captcha_in", \.vms.captchaIn, in: 0...1000),
    .number("vms_bad_code", \.vms.badCodeStatus, in: Limits.statusCodes), .choice("vms_errors", \.vms.errors),
    .choice("vms_refusal", \.vms.refusal), .choice("vms_list_shape", \.vms.listShape),
    .number("vms_done_status", \.vms.doneStatus, in: Limits.statusCodes), .seconds("vms_token_ttl", \.vms.tokenTTL),
    .choice("vms_ids", \.vms.identifiers), .members("vms_user_extra", \.vms.userExtra),
  ]

  private static let zephrEntries: [Entry] = [
    .text("zephr_prefix", \.zephr.prefix), .text("zephr_redirect", \.zephr.redirect),
    .text("zephr_redirect_parameter", \.zephr.redirectParameter),
    .number("zephr_start_status", \.zephr.startStatus, in: Limits.statusCodes),
    .flag("zephr_start_needs_client_type", \.zephr.startNeedsClientType), .text("zephr_cookie", \.zephr.cookieName),
    .number("zephr_exists_status", \.zephr.userExistsStatus, in: Limits.statusCodes),
    .flag("zephr_start_location", \.zephr.startHasLocation), .flag("zephr_start_cookie", \.zephr.startSetsCookie),
    .flag("zephr_needs_start_cookie", \.zephr.needsStartCookie), .choice("zephr_outcome", \.zephr.outcome),
    .text("zephr_message", \.zephr.message), .text("zephr_other_status", \.zephr.otherStatus),
    .choice("zephr_register", \.zephr.registering),
    .text("zephr_required_attributes", \.zephr.requiredAttributes),
    .text("zephr_refused_domain", \.zephr.refusedDomain),
    .number("zephr_domain_status", \.zephr.refusedDomainStatus, in: Limits.statusCodes),
    .flag("zephr_burns_state_key", \.zephr.burnsStateKey), .choice("zephr_register_cookie", \.zephr.cookiePlace),
    .flag("zephr_cookie_expires", \.zephr.cookieExpires), .seconds("zephr_session_ttl", \.zephr.sessionTTL),
    .flag("zephr_profile_cookie", \.zephr.profileSetsCookie), .members("zephr_profile_extra", \.zephr.profileExtra),
  ]

  private static let otherEntries: [Entry] = [
    .flag("dropbox_offline_by_default", \.dropbox.offlineByDefault),
    .flag("dropbox_fragment_expires", \.dropbox.fragmentExpires),
    .flag("dropbox_state_on_refusal", \.dropbox.stateOnRefusal),
    .flag("uber_needs_challenge", \.uber.needsChallenge),
    .flag("uber_ignores_request_uri", \.uber.ignoresUnknownRequestURI),
    .choice("scope_shape", \.token.scopeShape), .choice("expires_in_shape", \.token.expiresInShape),
    .flag("refresh_prolongs", \.refresh.prolongs), .text("id_token_service", \.sevenPass.service),
    .flag("offline_needs_consent", \.sevenPass.offlineNeedsConsent), .text("bridge", \.sevenPass.bridge),
    .choice("bridge_place", \.sevenPass.bridgePlace), .flag("bridge_needs_cookie", \.sevenPass.bridgeNeedsCookie),
  ]
}
