import BrokerAPI
import FoundationEssentials
import Grants

/// What came of an address that somebody brought: what the callback page shows and `login.handle_callback` answers.
enum CallbackVerdict {
  case completed(LoginID, AccountName, ProviderName)
  /// Its login has been taken by another callback.
  case taken(LoginID)
  /// The person has to do something more.
  case actionRequired(LoginID, LoginAction)
  /// The login ended with this error.
  case failed(RPCError)
  /// Nothing changed.
  case refused(RPCError)
  /// The browser goes on.
  case passedOn(URL)
  /// A person came back from the end of a session.
  case signedOut(ProviderName)
  /// The browser is not that of the login's user.
  case foreignBrowser(BrowserRefusal)
  /// No login of ours.
  case foreign
}
