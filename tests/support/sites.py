"""The HTTP API in this process, asked without a socket."""

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from support.corpora import Files
from support.served import FILES, state_of, state_over
from tamis.server.http import Api, application
from tamis.server.run import Agents
from tamis.server.state import ServerState

API = "/api/v1"


class Site:
    """A server over folders; what it says to a request."""

    def __init__(
        self, state: ServerState, token: str | None = None, names: tuple[str, ...] = ()
    ) -> None:
        self.state = state
        self.api = Api(state, token)
        self.client = TestClient(
            application(self.api, Agents(state), names),
            base_url="http://127.0.0.1:7171",
        )

    def close(self) -> None:
        self.client.close()
        self.state.close()

    def request(self, method: str, path: str, **how: Any) -> Any:
        return self.client.request(
            method, f"{API}{path}" if path.startswith("/") else path, **how
        )

    def get(self, path: str, **parameters: Any) -> Any:
        """What is answered, as JSON; anything but 200 fails the test."""
        said = self.request("GET", path, params=parameters)
        assert said.status_code == 200, said.text
        return said.json()

    def post(self, path: str, body: object) -> Any:
        said = self.request("POST", path, json=body)
        assert said.status_code == 200, said.text
        return said.json()

    def fault(
        self, path: str, status: int, method: str = "GET", **how: Any
    ) -> dict[str, Any]:
        """What is said to a request that is refused with a status."""
        said = self.request(method, path, **how)
        assert said.status_code == status, said.text
        assert said.headers["content-type"] == "application/problem+json"
        told: dict[str, Any] = said.json()
        assert told["status"] == status
        assert told["title"] and told["detail"]
        assert "Traceback" not in said.text
        return told


def site_of(folder: Path, files: Files = FILES, **flags: Any) -> Site:
    return Site(state_of(folder, files, **flags))


def site_over(*roots: Path, **flags: Any) -> Site:
    return Site(state_over(*roots, **flags))
