import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import ProviderTemplates

/// A provider of a template: `grantctl setup` writes its file, as the broker's own user.
extension Ask {
  func guide(_ template: SetupTemplate, _ message: HTML = "") -> View {
    let steps = template.steps.map { step -> HTML in "<li>\(step)</li>" }
    let redirect: HTML =
      template.redirectURI.map { "<p>Redirect URI to register:</p><pre tabindex=\"0\">\($0)</pre>" }
      ?? "<p>No redirect URI has to be registered.</p>"
    let address: HTML =
      template.page.flatMap(Location.init).map { page in
        """
        <p class="controls"><a class="button main" target="_blank" rel="noopener noreferrer" \
        href="\(page.text, limit: Location.limit)">Open the page of \(template.title)</a></p>
        """
      } ?? ""
    return View(
      title: "Add \(template.title)", section: .home,
      main: """
        \(message)<div class="panels"><div class="panel"><h2>1. Register a client</h2><ol>\(steps)</ol>\(redirect)\(address)</div>
        <div class="panel"><h2>2. Enter it</h2>\(commands == nil ? command(template) : templateForm(template))</div></div>

        """, isStill: true)
  }

  private func command(_ template: SetupTemplate) -> HTML {
    """
    <p>The template's settings are a file beside the configuration of this broker. \
    This command asks for the client, writes the file, and signs in:</p>\
    <pre tabindex="0">grantctl setup \(template.name)</pre><p class="soft">The provider then appears under \
    <a href="/add">Add an account</a>.</p>
    """
  }

  private func templateForm(_ template: SetupTemplate) -> HTML {
    let variables = template.variables.map { variable -> HTML in
      """
      <label for="set-\(variable.name)">\(variable.question)</label><input id="set-\(variable.name)" \
      name="set-\(variable.name)" value="\(form["set-\(variable.name)"] ?? variable.standard ?? "")" required \
      maxlength="256" autocomplete="off">
      """
    }
    let isRequired = template.secret == .required
    let label: HTML = isRequired ? "Client secret" : "Client secret, if there is one"
    let attribute: HTML = isRequired ? " required" : ""
    let secret: HTML =
      template.secret == .none
      ? ""
      : """
      <label for="secret">\(label)</label>\
      <input id="secret" name="client_secret" type="password" maxlength="4096" autocomplete="off"\(attribute)>
      """
    return form(
      "/add", [("template", template.name)],
      """
      \(variables)<label for="client">Client ID</label><input id="client" name="client_id" required maxlength="512" \
      value="\(form["client_id"] ?? "")" autocomplete="off">\(secret)\
      <p class="controls"><button class="main">Continue</button></p>
      """)
  }

  func addTemplate(_ template: SetupTemplate) async -> HTTPReply {
    let missing = template.variables.first { form["set-\($0.name)"] == nil }.map { $0.question }
    guard let commands else {
      return notAdded(
        template, "this page does not write the file of a provider", "Run `grantctl setup \(template.name)`.",
        .forbidden)
    }
    guard missing == nil, let id = form["client_id"], template.secret != .required || form["client_secret"] != nil
    else {
      return notAdded(template, "a field is empty: \(missing ?? "client")", "Fill it in.", .badRequest)
    }
    let known: [ProviderView]
    switch await call(ProviderList.self, NoParams()) {
    case .success(let list): known = list.providers
    case .failure(let error): return page(.failed("Add \(template.title)", error, section: .home), status: .conflict)
    }
    let name = freeName(template.name, known)
    let secret = template.secret == .none ? nil : form["client_secret"].map { SecretText($0) }
    var words = ["setup", "--provider-only", "--name=\(name)", "--client-id=\(id)"]
    if secret != nil { words.append("--client-secret-file=-") }
    for variable in template.variables { words.append("--set=\(variable.name)=\(form["set-\(variable.name)"] ?? "")") }
    let outcome = await commands.run(words + ["--", template.name], input: secret)
    guard outcome.output != nil else {
      let problem = outcome.problem(
        "grantctl setup \(template.name)", look: "Look under Add an account: is \(name) there? Then sign in there.")
      return notAdded(template, problem.what, problem.step, .conflict)
    }
    return .seeOther("/add?provider=\(HTML.percentEncoded(name))")
  }

  private func notAdded(
    _ template: SetupTemplate, _ what: String, _ step: String, _ status: HTTPResponseStatus
  ) -> HTTPReply {
    page(guide(template, Parts.message("bad", what, step)), status: status)
  }
}
