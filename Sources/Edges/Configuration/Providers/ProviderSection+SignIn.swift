import OAuth
import Providers

/// How people sign in, beyond the plain code in a browser, and where authorised calls go.
struct SignInDraft {
  var settings = SignInSettings()
  var allowsImplicit = false
  var responseType = "code"
  var api = APIAddresses()
  var apiErrorPath: [String] = []
  var apiErrors: [String: APISettings.Meaning] = [:]
}

extension Sections {
  static let signIn: [Key<ProviderDraft>] = [
    Key(
      "response_type", .choice(["code", "token"]), \.signIn.responseType, standard: "\"code\"",
      "`token`: the token itself comes by the browser (RFC 6749 §4.2), and is never refreshed. Only with "
        + "`allow_implicit`."),
    Key(
      "allow_implicit", .flag, \.signIn.allowsImplicit, standard: "false",
      "Allow `response_type = \"token\"`, which RFC 9700 §2.1.2 advises against. Only for a provider that has no codes."
    ),
    Key(
      "exchange_code", .flag, \.signIn.settings.exchangesCodes, standard: "true",
      "false: a login ends with the bare authorization code, for another program to exchange, and nothing is stored."),
    Key(
      "code_over_error", .flag, \.signIn.settings.takesCodeFirst, standard: "false",
      "Accept a code even if the provider returns an error next to it."),
    Key(
      "keep_callback_members", .names, \.signIn.settings.keepCallbackMembers, standard: "[]",
      "Parameters of the callback to keep with the grant, such as `[\"realmId\"]`."),
    Key(
      "identity_member", .name, \.signIn.settings.identityMember,
      "The member of the answer that says who signed in, with `oauth2`, such as `account_id`."),
    Key(
      "one_login_at_a_time", .flag, \.signIn.settings.isOneAtATime, standard: "false",
      "Refuse a login while another of this provider waits."),
    Key(
      "allowed_prompts", .names, \.signIn.settings.prompts, standard: "any",
      "The words that `prompt` may have; another one is refused before anything is sent."),
    Key(
      "native_apps", .apps, \.signIn.settings.native.apps, standard: "[]",
      "The provider's applications that sign people in, in the order to try: tables with `app`, its name; `url`, what "
        + "opens it; and `style`: `oauth2`, asked as the browser is, or `dropbox`."),
    Key(
      "native_prompts", .names, \.signIn.nativePrompts, standard: "all",
      "The words of `prompt` that those applications take; others are left out for them."),
    Key(
      "prefill", .word, \.signIn.settings.prefill, standard: "none",
      "Accept known data about the user (`login.start` with `prefill`), by a pushed request (RFC 9126). "
        + "`lenient`: if that fails, the login continues without; `strict`: it fails."),
    Key(
      "par_beside_parameters", .flag, \.signIn.settings.staysInFront, standard: "false",
      "Send all parameters in the URL in addition to `request_uri`, and push only the client and `login_hint`, against "
        + "RFC 9126 §4."
    ),
    Key(
      "bridge", .bridges, \.signIn.settings.bridges, standard: "[]",
      "Another application's answers to the provider, brought by this machine: tables with `scheme`, which that "
        + "application calls; `forward`, if the provider accepts them; and the parameters to add, `in_query` or "
        + "`in_fragment`, by where the answer was."),
    Key(
      "api_base", .name, \.signIn.api.base,
      "What paths of authorised calls (`request.send`) are relative to: an https URL."),
    Key(
      "api_origins", .names, \.signIn.api.origins, standard: "that of `api_base`",
      "Where else such calls may go with the account's token, such as `[\"https://content.example.com\"]`."),
    Key(
      "api_error_path", .names, \.signIn.apiErrorPath, standard: "[]",
      "The members to descend through to the error's code in the body of a 401, such as `[\"error\", \".tag\"]`."),
    Key(
      "api_errors", .meanings, \.signIn.apiErrors, standard: "{}",
      "The meaning of a 401 with that code: `refresh`: the token has ended; `login`: the user has to sign in again; `blocked`: "
        + "the user's account is blocked. Any other: `refresh`."),
  ]
}

extension SignInDraft {
  /// An existing key has a meaning, even if it is empty.
  fileprivate var nativePrompts: [String] {
    get { settings.native.prompts ?? [] }
    set { settings.native.prompts = newValue }
  }
}
