from django.db import migrations

from mqpg.contrib.django.install import Install


class Migration(migrations.Migration):
    atomic = False  # the broker is installed in a transaction of its own
    operations = [Install()]
