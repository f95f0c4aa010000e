extension DemoServer.Settings {
  /// A video management system's sign-in (`/api/v1/…`).
  public struct VMS: Sendable {
    /// How several things are put that servers put differently.
    public enum Errors: String, Sendable, CaseIterable {
      /// `errors: {field: [text]}`.
      case object
      /// `errors: "text"`.
      case string
    }

    /// A list of sessions.
    public enum Sessions: String, Sendable, CaseIterable {
      /// A member among others.
      case object
      /// Nothing but the list.
      case array
    }

    /// The result of a user's refusal.
    public enum Refusal: String, Sendable, CaseIterable {
      /// A page, and no callback.
      case page
      /// `?error=access_denied` at the redirect.
      case callback
    }

    /// The type of the identifiers of users and sessions.
    public enum Identifiers: String, Sendable, CaseIterable {
      case number, string
    }

    /// The target of the sign-in page, with `code` added to its query.
    public var redirect = "vms-demo://external-auth"
    /// `is_external_auth_enabled`; without it there is no external URL either.
    public var isEnabled = true
    /// `is_captcha_available`.
    public var hasCaptcha = false
    /// `version`.
    public var version = "24.4.0"
    /// The oldest accepted `X-Version`, others get 409; empty: any.
    public var oldestClient = ""
    /// Whether a call without one of the six headers is refused.
    public var needsHeaders = true
    /// How many sessions a user may have; 0 is any number.
    public var sessionLimit = 0
    /// Whether the answer of the session limit has a `key`, and so burns the code.
    public var hasKey = true
    /// Whether each answer of the session limit has a new key, and the one before is good no longer.
    public var changesKey = true
    public var limitShape = Sessions.object
    /// `captcha_will_required_in` in that answer; 0 is absent.
    public var captchaIn = 0
    /// What a code or a key that is not good is answered with.
    public var badCodeStatus = 422
    public var errors = Errors.object
    public var refusal = Refusal.page
    /// What `GET sessions` looks like.
    public var listShape = Sessions.array
    /// The answer to a logout and to the end of a session; 204 has no body.
    public var doneStatus = 200
    /// How long an access token lives; zero is for ever.
    public var tokenTTL: Duration = .zero
    public var identifiers = Identifiers.number
    /// Members laid over `user`; a null removes one.
    public var userExtra: [String: JSON] = [:]

    public init() {}
  }

  /// Zephr.
  public struct Zephr: Sendable {
    /// What the sign-in page leads to.
    public enum Outcome: String, Sendable, CaseIterable {
      /// Success for a user who is registered (alice and bob are), else partial.
      case natural
      case success, partial, failure, other
    }

    /// What a registration is answered with.
    public enum Registering: String, Sendable, CaseIterable {
      /// As the request deserves.
      case natural
      case exists
      case domainRefused = "domain_refused"
      case badRequest = "bad_request"
    }

    /// The place of the session in the answer to a registration.
    public enum CookiePlace: String, Sendable, CaseIterable {
      case both
      /// `Set-Cookie` alone.
      case header
      /// The member `cookie` alone.
      case member
    }

    /// `/blaize` or `/zephr`: the others are not served.
    public var prefix = "/blaize"
    /// The target of the sign-in page.
    public var redirect = "zephr-demo://auth"
    /// The parameter of a start that may name a longer redirect, one that begins with this one; empty is none.
    public var redirectParameter = ""
    /// The answer to a start: 302, or what some servers say instead.
    public var startStatus = 302
    public var startHasLocation = true
    public var startSetsCookie = true
    public var startNeedsClientType = true
    /// Whether registration and profile need the cookie of the start.
    public var needsStartCookie = false
    public var outcome = Outcome.natural
    /// `message` of a failure.
    public var message = "The identity provider refused the sign-in."
    /// `status` where the outcome is `other`.
    public var otherStatus = "pending_review"
    public var registering = Registering.natural
    /// Attributes that a registration must have, separated by spaces.
    public var requiredAttributes = ""
    /// The domain whose e-mail addresses are refused; empty is none.
    public var refusedDomain = ""
    public var refusedDomainStatus = 403
    public var userExistsStatus = 409
    /// Whether a refused registration burns its state key.
    public var burnsStateKey = false
    public var cookiePlace = CookiePlace.both
    /// The session cookie's name.
    public var cookieName = "blaize_session"
    /// Whether a session cookie has `Expires`.
    public var cookieExpires = true
    public var sessionTTL: Duration = .seconds(86_400)
    /// Whether a profile's answer sets the session cookie again.
    public var profileSetsCookie = false
    /// Members laid over a profile.
    public var profileExtra: [String: JSON] = [:]

    public init() {}
  }

  /// Dropbox (`/oauth2/…`, `/2/…`).
  public struct Dropbox: Sendable {
    /// Whether a request without `token_access_type` is for a refresh token all the same.
    public var offlineByDefault = false
    /// Whether a token in the fragment comes with `expires_in` and `scope`.
    public var fragmentExpires = false
    /// Whether a refusal in the callback bears the state.
    public var stateOnRefusal = true

    public init() {}
  }

  /// Uber (`/oauth/v2/…`).
  public struct Uber: Sendable {
    /// Whether a request needs a code challenge.
    public var needsChallenge = false
    /// Whether a `request_uri` that is not known is passed over; else it is a page.
    public var ignoresUnknownRequestURI = false

    public init() {}
  }

  /// 7Pass, whose requests are OpenID Connect's own.
  public struct SevenPass: Sendable {
    /// The part of the app's URL with the bridge's values.
    public enum BridgePlace: String, Sendable, CaseIterable {
      case query, fragment
    }

    /// A service that ID tokens are for besides the client: `aud` is a list then, and `azp` the client. Empty is none.
    public var service = ""
    /// Whether `offline_access` is granted with `prompt=consent` alone.
    public var offlineNeedsConsent = false
    /// The address of a native app, such as `fb123://authorize`, that a sign-in goes by; empty is none.
    public var bridge = ""
    public var bridgePlace = BridgePlace.query
    /// Whether the way back from the app needs the browser's cookie.
    public var bridgeNeedsCookie = false

    public init() {}
  }
}
